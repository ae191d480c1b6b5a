# What `cmake --install` puts where: the program, its manual pages, the public headers, one static library that holds
# every part that the headers need, its pkg-config file and the licence.

set(parts base codec pool backing device)
add_library(uzram_lib STATIC)
set_target_properties(uzram_lib PROPERTIES OUTPUT_NAME uzram LINKER_LANGUAGE CXX)
foreach(part IN LISTS parts)
  target_sources(uzram_lib PRIVATE $<TARGET_OBJECTS:uzram_${part}>)
endforeach()

# What the parts link to; none of them writes to the log, so spdlog is not needed. The file names its
# prefix relative to itself, so that --prefix and DESTDIR need no edit.
set(UZRAM_PC_REQUIRES "liblz4 libzstd libdeflate libnbd liburing")
if(UZRAM_LZO)
  string(APPEND UZRAM_PC_REQUIRES " lzo2")
endif()
set(UZRAM_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH UZRAM_PC_TO_PREFIX /prefix/${UZRAM_PC_DIR} /prefix)
string(REGEX REPLACE "/$" "" UZRAM_PC_TO_PREFIX ${UZRAM_PC_TO_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/packaging/uzram.pc.in ${PROJECT_BINARY_DIR}/uzram.pc @ONLY)

install(TARGETS uzram RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_BINARY_DIR}/uzram.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/uzram-attributes.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
install(TARGETS uzram_lib ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/uzram DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/uzram.pc DESTINATION ${UZRAM_PC_DIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
